import assert from "node:assert/strict";
import { toRoman } from "../lib/numerals.mjs";

assert.equal(toRoman(4), "IV");
assert.equal(toRoman(1994), "MCMXCIV");
assert.throws(() => toRoman(4000), RangeError);
