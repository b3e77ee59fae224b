module github.com/holdfast-go/holdfast/adapters/leaderlock

go 1.25.0
