#!/usr/bin/env bash
# bench/run onnx: see bench/peer_onnx.py (it cannot be called onnx.py, the name of the module it uses).
set -euo pipefail
exec /usr/bin/python3 bench/peer_onnx.py "$@"
