package dynamocall

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/store"
)

// classify says what an answer of DynamoDB means. Most refusals have status 400, so
// that only the code distinguishes them.
func (t *Table) classify(c *awscall.Call, err error) error {
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		return err
	}
	text := c.Text(err)
	switch awscall.Code(err) {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded",
		"TransactionConflictException", "ReplicatedWriteConflictException":
		return c.Fail(err, store.ErrUnavailable, store.NotApplied, "%s", text)
	case "ResourceNotFoundException":
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "the table does not exist here; %s creates it (check also the region and the endpoint)", t.Init)
	case "ValidationException":
		if strings.Contains(text, "able/index name") || strings.Contains(strings.ToLower(text), "tablename") {
			return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "the name of the table is not valid (%s)", text)
		}
		if strings.Contains(strings.ReplaceAll(strings.ToLower(text), " ", ""), "timetolive") {
			return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "%s", text)
		}
		if strings.Contains(text, "Item size") {
			return c.Fail(err, store.ErrTooLarge, store.NotApplied, "%s", text)
		}
		if t.Invalid != nil {
			return c.Fail(err, t.Invalid, store.NotApplied, "%s", text)
		}
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "the table does not accept the items of Holdfast; the keys of the table must be %v (%s)", t.Keys, text)
	case "AccessDeniedException":
		return c.Fail(err, store.ErrDenied, store.NotApplied, "%s", text)
	case "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException", "MissingAuthenticationTokenException", "IncompleteSignatureException":
		return c.Fail(err, store.ErrCredentials, store.NotApplied, "the credentials were refused: %s", text)
	case "InternalServerError", "ServiceUnavailable":
		return c.Fail(err, store.ErrUnavailable, store.Unknown, "%s", text)
	}
	return c.Classify(err)
}
