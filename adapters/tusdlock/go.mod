module github.com/holdfast-go/holdfast/adapters/tusdlock

go 1.25.0
