module github.com/holdfast-go/holdfast/adapters/tofustate

go 1.25.0

require github.com/holdfast-go/holdfast v0.1.0
