package artifact

import (
	"context"
	"errors"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

// maxSignatures is how many signatures of an artifact are verified at most.
const maxSignatures = 50

// maxReferrers is how many referrers are read to find them.
const maxReferrers = 200

// codeMissing is how a registry says that it does not have something.
const codeMissing = "artifact_not_in_registry"

// look is what a registry says of an artifact.
type look struct {
	mediaType, artifactType string
	size                    int64
	layers                  int32
	platforms               []Platform
}

// inspect reads the manifest of an artifact; of an index, also every manifest that it
// names for a platform.
func (s *Service) inspect(ctx context.Context, of subject) (look, error) {
	m, err := s.manifest(ctx, of.repository, of.digest)
	if err != nil {
		return look{}, err
	}
	l := look{
		mediaType: m.MediaType, artifactType: m.kind(), size: m.bytes(), layers: int32(len(m.Layers)), //nolint:gosec // at most maxLayers
		platforms: []Platform{},
	}
	for _, d := range m.Manifests {
		name := d.platform()
		if strings.HasPrefix(name, "unknown/") { // what builders say of the others, which no node runs
			continue
		}
		child, err := s.manifest(ctx, of.repository, d.Digest)
		if err != nil {
			return look{}, err
		}
		if child.index() {
			return look{}, fault.New(fault.Conflict, "artifact_manifest_invalid", "the index names another index").
				WithRemedy("register one of the manifests, or push an index that names them itself")
		}
		p := Platform{Platform: name, Digest: d.Digest, Size: child.bytes(), Layers: int32(len(child.Layers))} //nolint:gosec // at most maxLayers
		l.platforms = append(l.platforms, p)
		l.size, l.layers = max(l.size, p.Size), max(l.layers, p.Layers)
	}
	return l, nil
}

func (s *Service) manifest(ctx context.Context, repository, digest string) (manifest, error) {
	mediaType, body, err := s.registry.Manifest(ctx, repository, digest)
	if err != nil {
		return manifest{}, err
	}
	return parseManifest(mediaType, body)
}

// findings collects what is known of the signatures of an artifact.
type findings struct {
	seen  int
	more  bool   // there are more than were looked at
	wrong string // why the first that was refused was
}

func (f *findings) refuse(why error) {
	if f.wrong == "" {
		f.wrong = why.Error()
	}
}

// verify looks for a signature that counts: first for the newer form, then for the older
// one. One that counts is enough, whatever else is there: whoever may write to the
// repository could otherwise unsign it. What cannot be read is an error, and no verdict.
func (s *Service) verify(ctx context.Context, of subject, keys []Key) (Verdict, error) {
	var f findings
	if k, err := s.bundles(ctx, of, keys, &f); err != nil {
		return Verdict{}, err
	} else if !k.ID.IsZero() {
		return Verdict{Signature: Verified, Format: Bundle, Key: k.ID}, nil
	}
	if k, err := s.simple(ctx, of, keys, &f); err != nil {
		return Verdict{}, err
	} else if !k.ID.IsZero() {
		return Verdict{Signature: Verified, Format: SimpleSigning, Key: k.ID}, nil
	}
	switch {
	case f.seen == 0 && !f.more:
		return Verdict{Signature: Unsigned, Reason: "the registry has no signature of it"}, nil
	case f.more:
		f.wrong = strings.TrimPrefix(f.wrong+"; there are more signatures and referrers than are looked at", "; ")
	}
	return Verdict{Signature: Refused, Reason: f.wrong}, nil
}

// bundles looks through the bundles among the referrers.
func (s *Service) bundles(ctx context.Context, of subject, keys []Key, f *findings) (Key, error) {
	all, err := s.registry.Referrers(ctx, of.repository, of.digest, typeBundle)
	if err != nil {
		return Key{}, err
	}
	for i, digest := range all {
		if i == maxReferrers || f.seen == maxSignatures {
			f.more = true
			break
		}
		raw, err := s.bundle(ctx, of, digest)
		if transient(err) {
			return Key{}, err
		}
		if err == nil && raw == nil {
			continue
		}
		f.seen++
		var k Key
		if err == nil {
			k, err = of.checkBundle(raw, keys)
		}
		if err == nil {
			return k, nil
		}
		f.refuse(err)
	}
	return Key{}, nil
}

// bundle reads the bundle that a referrer holds; none: it is something else.
func (s *Service) bundle(ctx context.Context, of subject, digest string) ([]byte, error) {
	m, err := s.manifest(ctx, of.repository, digest)
	if err != nil {
		return nil, err
	}
	if m.ArtifactType != typeBundle {
		return nil, nil
	}
	if m.Subject == nil || m.Subject.Digest != of.digest || len(m.Layers) != 1 || m.Layers[0].MediaType != typeBundle {
		return nil, errors.New("a referrer claims to be a bundle of it, and is not")
	}
	return s.registry.Blob(ctx, of.repository, m.Layers[0].Digest, maxBundle)
}

// simple looks through the signatures of the older form.
func (s *Service) simple(ctx context.Context, of subject, keys []Key, f *findings) (Key, error) {
	mediaType, body, err := s.registry.Tagged(ctx, of.repository, strings.Replace(of.digest, ":", "-", 1)+".sig")
	switch {
	case fault.CodeOf(err) == codeMissing:
		return Key{}, nil
	case err != nil:
		return Key{}, err
	}
	m, err := parseManifest(mediaType, body)
	if err != nil {
		f.seen++
		f.refuse(err)
		return Key{}, nil
	}
	for _, l := range m.Layers {
		if l.MediaType != typeSimpleSigning {
			continue
		}
		if f.seen == maxSignatures {
			f.more = true
			break
		}
		f.seen++
		payload, err := s.registry.Blob(ctx, of.repository, l.Digest, maxPayload)
		if err != nil {
			if transient(err) {
				return Key{}, err
			}
			f.refuse(err)
			continue
		}
		k, err := of.checkSimple(payload, l.Annotations[annotationSig], keys)
		if err == nil {
			return k, nil
		}
		f.refuse(err)
	}
	return Key{}, nil
}

// transient says whether it may be otherwise when it is asked again.
func transient(err error) bool {
	_, ours := fault.As(err)
	return ours && fault.KindOf(err) != fault.Conflict
}
