module almanac

go 1.19
