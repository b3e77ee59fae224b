// Package hostile tests the clients of S3 and DynamoDB against servers that send damaged,
// endless or false answers, or that repeat secrets. The servers are in the process of the test.
package hostile
