package httpapi

import "github.com/danielgtaylor/huma/v2/validation"

// What is wrong with a field goes on from its name, as people would say it. Patterns and what
// parsers say are left out (%.0s): they explain nothing to whoever typed the value. Schemas
// take the words over when they are made, so they are set before anything else runs.
func init() {
	validation.MsgUnexpectedProperty = "is not a field of this request"
	validation.MsgExpectedRequiredProperty = "%s is required"
	validation.MsgExpectedDependentRequiredProperty = "%s is required when %s is given"
	validation.MsgExpectedOneOf = "must be one of: %s"
	validation.MsgExpectedConst = "must be %v"

	validation.MsgExpectedBoolean = "must be true or false"
	validation.MsgExpectedNumber = "must be a number"
	validation.MsgExpectedInteger = "must be a whole number"
	validation.MsgExpectedString = "must be text"
	validation.MsgExpectedBase64String = "must be base64"
	validation.MsgExpectedArray = "must be a list"
	validation.MsgExpectedObject = "must be an object"

	validation.MsgExpectedMinimumNumber = "must be %v or more"
	validation.MsgExpectedExclusiveMinimumNumber = "must be more than %v"
	validation.MsgExpectedMaximumNumber = "must be %v or less"
	validation.MsgExpectedExclusiveMaximumNumber = "must be less than %v"
	validation.MsgExpectedNumberBeMultipleOf = "must be a multiple of %v"
	validation.MsgExpectedMinLength = "must have %d or more characters"
	validation.MsgExpectedMaxLength = "must have %d or fewer characters"
	validation.MsgExpectedMinItems = "must have %d or more entries"
	validation.MsgExpectedMaxItems = "must have %d or fewer entries"
	validation.MsgExpectedMinProperties = "must have %d or more entries"
	validation.MsgExpectedMaxProperties = "must have %d or fewer entries"
	validation.MsgExpectedArrayItemsUnique = "must not name anything twice"

	validation.MsgExpectedMatchPattern = "has characters or a form that are not allowed here%.0s"
	validation.MsgExpectedBePattern = "must be %s"
	validation.MsgExpectedRFC3339DateTime = "must be a time such as 2026-01-02T15:04:05Z"
	validation.MsgExpectedRFC3339Date = "must be a date such as 2026-01-02"
	validation.MsgExpectedRFC3339Time = "must be a time such as 15:04:05Z"
	validation.MsgExpectedRFC5322Email = "must be an e-mail address%.0s"
	validation.MsgExpectedRFC5322EmailBare = "must be an e-mail address without a name"
	validation.MsgExpectedRFC5890Hostname = "must be a host name"
	validation.MsgExpectedRFC2673IPv4 = "must be an IPv4 address"
	validation.MsgExpectedRFC2373IPv6 = "must be an IPv6 address"
	validation.MsgExpectedRFCIPAddr = "must be an IP address"
	validation.MsgExpectedRFC3986URI = "must be an address such as https://example.org%.0s"
	validation.MsgExpectedRFC3986AbsoluteURI = "must be a whole address such as https://example.org"
	validation.MsgExpectedRFC4122UUID = "must be an id%.0s"
	validation.MsgExpectedDuration = "must be a duration such as 12h%.0s"
}
