// node keras_run.cjs MODULES REQUEST.json: builds a Keras model from its configuration and weights
// in TensorFlow.js and prints its outputs for the inputs, as JSON. REQUEST: {config, weights:
// [{path, shape, values}], inputs}; weights in the order of the model's layers.
const path = require("path");
const fs = require("fs");
const load = (name) => require(path.join(process.argv[2], "@tensorflow", name));
const tf = load("tfjs-core");
const layers = load("tfjs-layers");
load("tfjs-backend-cpu");

async function run() {
  const request = JSON.parse(fs.readFileSync(process.argv[3]));
  const model = await layers.models.modelFromJSON({ modelTopology: request.config });
  const inputs = tf.tensor(request.inputs);
  if (!model.built) model.build([null, inputs.shape[1]]);
  model.setWeights(request.weights.map((w) => tf.tensor(w.values, w.shape)));
  const outputs = model.predict(inputs);
  console.log(JSON.stringify({ outputs: await outputs.array() }));
}
run().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
