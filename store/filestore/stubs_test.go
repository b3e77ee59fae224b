//go:build linux

package filestore_test

func appendLines(args []string) error   { return nil }
func operate(args []string) error       { return nil }
func fill(args []string) error          { return nil }
func waitForChange(args []string) error { return nil }
