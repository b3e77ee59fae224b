module github.com/holdfast-go/holdfast/observe

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.1.0
	github.com/holdfast-go/holdfast/object v0.1.0
)
