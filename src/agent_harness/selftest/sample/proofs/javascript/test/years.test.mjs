import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { daysIn, isLeap } from "../lib/years.mjs";

test("leap years", () => {
  const years = [1900, 1996, 2000, 2023];
  assert.equal(years.map(isLeap).join(" "), readFileSync("leap.txt", "utf8").trim());
});

test("days in a year", () => {
  assert.equal(daysIn(2024), 366);
});
