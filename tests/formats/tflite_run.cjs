// node tflite_run.cjs MODULES REQUEST.json: runs a TensorFlow Lite file in TensorFlow Lite itself,
// built for WebAssembly, and prints its outputs for the inputs, as JSON. REQUEST: {model: path,
// inputs: [[number]]}; numbers as they are stored, so of 8 bits where the file says so.
const path = require("path");
const fs = require("fs");
const wasm = path.join(process.argv[2], "@tensorflow", "tfjs-tflite", "wasm");

// The module believes to be in a browser; what it would fetch there is handed over.
globalThis.window = globalThis;

async function run() {
  const request = JSON.parse(fs.readFileSync(process.argv[3]));
  const make = require(path.join(wasm, "tflite_web_api_cc.js"));
  const said = [];
  const say = (line) => said.push(line);
  const binary = fs.readFileSync(path.join(wasm, "tflite_web_api_cc.wasm"));
  const tflite = await make({ wasmBinary: binary, print: say, printErr: say });
  const refuse = (why) => {
    throw new Error([why, ...said].join("\n"));
  };
  const bytes = fs.readFileSync(request.model);
  const at = tflite._malloc(bytes.length);
  tflite.HEAPU8.set(bytes, at);
  const options = { numThreads: 1, enableProfiling: false, maxProfilingBufferEntries: 0 };
  const { TFLiteWebModelRunner } = tflite;
  const made = TFLiteWebModelRunner.CreateFromBufferAndOptions(at, bytes.length, options);
  if (!made.ok()) refuse(made.errorMessage());
  const model = made.value();
  const outputs = request.inputs.map((input) => {
    const place = model.GetInputs().get(0).data();
    if (place.length !== input.length) refuse(`wanted ${place.length} numbers at its input`);
    place.set(input);
    if (!model.Infer()) refuse("inference failed");
    return Array.from(model.GetOutputs().get(0).data());
  });
  const info = model.GetOutputs().get(0);
  console.log(JSON.stringify({ shape: info.shape, outputs }));
}
run().catch((error) => {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
});
