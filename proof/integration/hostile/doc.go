// Package hostile tests the clients of S3 and DynamoDB against bad servers. Their answers are damaged,
// endless or false, or repeat secrets. The servers run in the process of the test.
package hostile
