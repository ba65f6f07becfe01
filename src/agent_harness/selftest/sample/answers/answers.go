// Answers the questions of the oracle with the work: one JSON list in, one JSON list out.
package main

import (
	"encoding/json"
	"os"

	"almanac/numerals"
)

func main() {
	var asked [][]any
	var answers []any
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		os.Exit(2)
	}
	for _, each := range asked {
		if text, err := numerals.ToRoman(int(each[2].(float64))); err == nil {
			answers = append(answers, text)
		} else {
			answers = append(answers, nil)
		}
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
