import assert from "node:assert/strict";
import { test } from "node:test";
import { toRoman } from "../lib/numerals.mjs";

test("numerals", () => {
  assert.equal(toRoman(4), "IV");
  assert.equal(toRoman(1994), "MCMXCIV");
  assert.equal(toRoman(3999), "MMMCMXCIX");
});

test("there is none", () => {
  for (const number of [0, -1, 4000]) assert.throws(() => toRoman(number), RangeError);
});
