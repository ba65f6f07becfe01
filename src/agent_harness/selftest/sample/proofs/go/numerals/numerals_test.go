package numerals

import "testing"

func TestNumerals(t *testing.T) {
	for number, want := range map[int]string{4: "IV", 1994: "MCMXCIV", 3999: "MMMCMXCIX"} {
		if got, err := ToRoman(number); err != nil || got != want {
			t.Errorf("ToRoman(%d) is %q, want %q", number, got, want)
		}
	}
	for _, number := range []int{0, -1, 4000} {
		if _, err := ToRoman(number); err == nil {
			t.Errorf("ToRoman(%d) is not refused", number)
		}
	}
}
