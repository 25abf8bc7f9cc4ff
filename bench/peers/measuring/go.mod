module windlass/bench/peers/measuring

go 1.26.0
