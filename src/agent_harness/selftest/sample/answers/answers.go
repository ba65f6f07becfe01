// Answers the questions of the oracle with the work: one JSON list in, one JSON list out.
package main

import (
	"encoding/json"
	"os"

	"almanac/numerals"
	"almanac/years"
)

func main() {
	var asked [][]any
	var answers []any
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		os.Exit(2)
	}
	for _, each := range asked {
		number := int(each[2].(float64))
		switch each[1] {
		case "is_leap":
			answers = append(answers, years.IsLeap(number))
		case "days_in":
			answers = append(answers, years.DaysIn(number))
		default:
			if text, err := numerals.ToRoman(number); err == nil {
				answers = append(answers, text)
			} else {
				answers = append(answers, nil)
			}
		}
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
