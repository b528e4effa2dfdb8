// node verify_bundle.js BUNDLE KEY.pub: verifies a sigstore bundle by sigstore's own client, without
// a transparency log, and prints the payload that the signature is about.
"use strict";
const { readFileSync } = require("fs");
const { createPublicKey } = require("crypto");
const { createRequire } = require("module");
const { join } = require("path");
// Packages are beside this file, or in the folder that NODE_MODULES names.
const from = createRequire(join(process.env.NODE_MODULES || __dirname, "x.js"));
const { bundleFromJSON } = from("@sigstore/bundle");
const { Verifier, toSignedEntity } = from("@sigstore/verify");

const [path, key] = process.argv.slice(2);
const bundle = bundleFromJSON(JSON.parse(readFileSync(path, "utf8")));
const trusted = {
  certificateAuthorities: [],
  timestampAuthorities: [],
  tlogs: [],
  ctlogs: [],
  publicKey: () => ({ publicKey: createPublicKey(readFileSync(key)), validFor: () => true }),
};
const none = { ctlogThreshold: 0, tlogThreshold: 0, tsaThreshold: 0, timestampThreshold: 0 };
new Verifier(trusted, none).verify(toSignedEntity(bundle));
process.stdout.write(bundle.content.dsseEnvelope.payload);
