package artifact

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

// maxSignatures is how many signatures of the older form are verified at most, from each
// end of their list.
const maxSignatures = 50

// maxReferrers is how many referrers are read to find them.
const maxReferrers = 200

// codeMissing is how a registry says that it does not have something.
const codeMissing = "artifact_not_in_registry"

// examiner asks one registry, with one login.
type examiner struct{ registry Registry }

// look is what a registry says of an artifact.
type look struct {
	mediaType, artifactType string
	size                    int64
	layers                  int32
	platforms               []Platform
}

// inspect reads the manifest of an artifact; of an index, also every manifest that it
// names for a platform.
func (e examiner) inspect(ctx context.Context, of subject) (look, error) {
	m, err := e.fetchable(ctx, of.repository, of.digest)
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
		child, err := e.fetchable(ctx, of.repository, d.Digest)
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

// fetchable reads a manifest that a node would fetch, or an index that names some.
func (e examiner) fetchable(ctx context.Context, repository, digest string) (manifest, error) {
	m, err := e.manifest(ctx, repository, digest)
	if err == nil {
		err = m.fetchable()
	}
	return m, err
}

func (e examiner) manifest(ctx context.Context, repository, digest string) (manifest, error) {
	mediaType, body, err := e.registry.Manifest(ctx, repository, digest)
	if err != nil {
		return manifest{}, err
	}
	return parseManifest(mediaType, body)
}

// findings collects what is known of the signatures of an artifact.
type findings struct {
	best       Verdict // of those that count
	ofPlatform bool    // the best is by a key of the platform, and none can be better
	any        bool    // there are some
	more       bool    // there are more than were looked at
	wrong      string  // why the first that was refused was
	broken     error   // why the first that could not be read was not
}

func (f *findings) refuse(why error) {
	if f.any = true; f.wrong == "" {
		f.wrong = why.Error()
	}
}

// missed keeps that something could not be read, which may be otherwise later.
func (f *findings) missed(why error) {
	if f.broken == nil {
		f.broken = why
	}
}

// take keeps a signature that counts.
func (f *findings) take(k Key, format Format) {
	if f.best.Key.IsZero() || k.Org.IsZero() {
		f.best, f.ofPlatform = Verdict{Signature: Verified, Format: format, Key: k.ID}, k.Org.IsZero()
	}
}

// verify looks for a signature that counts, in both forms, and prefers one by a key of the
// platform. One that counts is enough, whatever else is there, and whatever of it cannot
// be read: whoever may write to the repository could otherwise unsign it.
func (e examiner) verify(ctx context.Context, of subject, keys []Key) (Verdict, error) {
	var f findings
	e.bundles(ctx, of, keys, &f)
	if !f.ofPlatform {
		e.simple(ctx, of, keys, &f)
	}
	switch {
	case !f.best.Key.IsZero():
		return f.best, nil
	case f.broken != nil:
		return Verdict{}, f.broken
	case !f.any && !f.more:
		return Verdict{Signature: Unsigned, Reason: "the registry has no signature of it"}, nil
	case f.more:
		f.wrong = strings.TrimPrefix(f.wrong+"; there are more signatures and referrers than are looked at", "; ")
	}
	return Verdict{Signature: Refused, Reason: f.wrong, partial: f.more}, nil
}

// ends takes so many from both ends of a list: neither who was there first nor who came
// last fills it alone.
func ends(all []string, most int) (some []string, more bool) {
	if len(all) <= most {
		return all, false
	}
	return append(slices.Clone(all[:most/2]), all[len(all)-most/2:]...), true
}

// bundles looks through the bundles among the referrers.
func (e examiner) bundles(ctx context.Context, of subject, keys []Key, f *findings) {
	all, err := e.registry.Referrers(ctx, of.repository, of.digest, typeBundle)
	if err != nil {
		f.missed(err)
		return
	}
	all, f.more = ends(all, maxReferrers)
	for _, digest := range all {
		if f.ofPlatform || ctx.Err() != nil {
			return
		}
		raw, err := e.bundle(ctx, of, digest)
		switch {
		case transient(err):
			f.missed(err)
			continue
		case err == nil && raw == nil:
			continue
		}
		var k Key
		if err == nil {
			k, err = of.checkBundle(raw, keys)
		}
		if err != nil {
			f.refuse(err)
			continue
		}
		f.take(k, Bundle)
	}
}

// bundle reads the bundle that a referrer holds; none: it is something else.
func (e examiner) bundle(ctx context.Context, of subject, digest string) ([]byte, error) {
	m, err := e.manifest(ctx, of.repository, digest)
	if err != nil {
		return nil, err
	}
	if m.ArtifactType != typeBundle {
		return nil, nil
	}
	if m.Subject == nil || m.Subject.Digest != of.digest || len(m.Layers) != 1 || m.Layers[0].MediaType != typeBundle {
		return nil, errors.New("a referrer claims to be a bundle of it, and is not")
	}
	return e.registry.Blob(ctx, of.repository, m.Layers[0].Digest, maxBundle)
}

// simple looks through the signatures of the older form.
func (e examiner) simple(ctx context.Context, of subject, keys []Key, f *findings) {
	mediaType, body, err := e.registry.Tagged(ctx, of.repository, strings.Replace(of.digest, ":", "-", 1)+".sig")
	if fault.CodeOf(err) == codeMissing {
		return
	}
	if err != nil {
		f.missed(err)
		return
	}
	m, err := parseManifest(mediaType, body)
	if err != nil {
		f.refuse(err)
		return
	}
	if len(m.Layers) > 2*maxSignatures {
		m.Layers, f.more = append(m.Layers[:maxSignatures:maxSignatures], m.Layers[len(m.Layers)-maxSignatures:]...), true
	}
	for _, l := range m.Layers {
		if f.ofPlatform || ctx.Err() != nil {
			return
		}
		if l.MediaType != typeSimpleSigning {
			continue
		}
		payload, err := e.registry.Blob(ctx, of.repository, l.Digest, maxPayload)
		if transient(err) {
			f.missed(err)
			continue
		}
		var k Key
		if err == nil {
			k, err = of.checkSimple(payload, l.Annotations[annotationSig], keys)
		}
		if err != nil {
			f.refuse(err)
			continue
		}
		f.take(k, SimpleSigning)
	}
}

// transient says whether it may be otherwise when it is asked again.
func transient(err error) bool {
	_, ours := fault.As(err)
	return ours && fault.KindOf(err) != fault.Conflict
}
