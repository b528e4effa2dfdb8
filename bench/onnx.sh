#!/usr/bin/env bash
# bench/run onnx: see bench/peer_onnx.py (it cannot be called onnx.py, the name of the module it
# uses), and bench/peer_onnx_images.py for the case of images.
set -euo pipefail
/usr/bin/python3 bench/peer_onnx.py "$@"
exec /usr/bin/python3 bench/peer_onnx_images.py
