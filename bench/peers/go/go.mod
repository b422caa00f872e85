module workloads

go 1.23
