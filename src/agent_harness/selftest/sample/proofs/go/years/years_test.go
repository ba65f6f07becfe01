package years

import (
	"fmt"
	"os"
	"testing"
)

func TestLeapYears(t *testing.T) {
	want, _ := os.ReadFile("leap.txt")
	if got := fmt.Sprintln(IsLeap(1900), IsLeap(1996), IsLeap(2000), IsLeap(2023)); got != string(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDaysInAYear(t *testing.T) {
	if got := DaysIn(2024); got != 366 {
		t.Errorf("got %d, want 366", got)
	}
}
