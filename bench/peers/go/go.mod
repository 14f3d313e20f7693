module legwork.bench/gopool

go 1.19
