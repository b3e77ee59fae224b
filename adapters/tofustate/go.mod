module github.com/holdfast-go/holdfast/adapters/tofustate

go 1.25.0
