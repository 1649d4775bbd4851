// Package objects makes addresses that read one file for a short time: signed ones of
// stores that speak the protocol of S3, and those that the Hugging Face hub answers with.
package objects

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"gpuaas/controlplane/internal/base/redact"
)

// Keys are an access key of a store.
type Keys struct {
	ID     string
	Secret redact.Secret
	Region string
}

// Sign makes an address that reads the file at an address until the life has passed. It
// asks nobody: whether the key may read the file, the store decides. The address has no
// escapes, so that the signer's are the only ones, as the protocol wants it.
func Sign(ctx context.Context, address string, k Keys, now time.Time, life time.Duration) (redact.Secret, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return redact.Secret{}, fmt.Errorf("read address: %w", err)
	}
	request.URL.RawQuery = url.Values{"X-Amz-Expires": {strconv.Itoa(int(life / time.Second))}}.Encode()
	signed, _, err := signer.NewSigner().PresignHTTP(ctx, aws.Credentials{
		AccessKeyID: k.ID, SecretAccessKey: k.Secret.Reveal(),
	}, request, "UNSIGNED-PAYLOAD", "s3", k.Region, now.UTC())
	if err != nil {
		return redact.Secret{}, fmt.Errorf("sign address: %w", err)
	}
	return redact.New(signed), nil
}
