package years

func IsLeap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func DaysIn(year int) int {
	if IsLeap(year) {
		return 366
	}
	return 365
}
