module github.com/holdfast-go/holdfast/adapters/cronlock

go 1.25.0
