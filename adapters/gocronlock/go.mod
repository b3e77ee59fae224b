module github.com/holdfast-go/holdfast/adapters/gocronlock

go 1.25.0
