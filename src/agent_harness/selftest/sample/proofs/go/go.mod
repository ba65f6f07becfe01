module almanac

go 1.18
