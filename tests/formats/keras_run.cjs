// node keras_run.cjs MODULES REQUEST.json: builds a Keras model from its configuration and weights
// in TensorFlow.js and prints its outputs for the inputs, as JSON. REQUEST: {config, weights:
// [{name, shape, values}], inputs}.
const path = require("path");
const fs = require("fs");
const load = (name) => require(path.join(process.argv[2], "@tensorflow", name));
const tf = load("tfjs-core");
const layers = load("tfjs-layers");
load("tfjs-backend-cpu");

async function run() {
  const request = JSON.parse(fs.readFileSync(process.argv[3]));
  const specs = request.weights.map((w) => ({ name: w.name, shape: w.shape, dtype: "float32" }));
  const data = Float32Array.from(request.weights.flatMap((w) => w.values)).buffer;
  const model = await layers.loadLayersModel({
    load: async () => ({ modelTopology: request.config, weightSpecs: specs, weightData: data }),
  });
  const outputs = model.predict(tf.tensor(request.inputs));
  console.log(JSON.stringify(await outputs.array()));
}
run().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
