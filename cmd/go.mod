module github.com/holdfast-go/holdfast/cmd

go 1.25.0

require (
	github.com/gowebpki/jcs v1.0.2
	github.com/holdfast-go/holdfast v0.1.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	golang.org/x/sys v0.40.0
	golang.org/x/term v0.39.0
)

require golang.org/x/tools v0.26.0 // indirect

require (
	github.com/creack/pty v1.1.24
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/rogpeppe/go-internal v1.14.1
)
