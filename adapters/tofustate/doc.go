// Package tofustate is the HTTP backend of OpenTofu and Terraform on any store of Holdfast.
package tofustate
