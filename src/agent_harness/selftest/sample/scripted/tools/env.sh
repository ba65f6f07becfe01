LC_ALL=C
export LC_ALL
