module github.com/holdfast-go/holdfast/adapters/gooselock

go 1.25.0
