package main

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"github.com/cloudflare/cloudflare-go/v6/dns"
	"github.com/cloudflare/cloudflare-go/v6/option"
	"github.com/cloudflare/cloudflare-go/v6/user"
	"github.com/cloudflare/cloudflare-go/v6/zones"
)

// set fills a parameter of the client. The client's own helper is in the root package, which would build the API of
// every product. The smaller packages take the same options and are enough.
func set(field, value any) {
	target := reflect.ValueOf(field).Elem()
	inner := target.FieldByName("Value")
	inner.Set(reflect.ValueOf(value).Convert(inner.Type()))
	target.FieldByName("Present").SetBool(true)
}

func cfOptions(token string) []option.RequestOption {
	return []option.RequestOption{
		option.WithBaseURL(env("CLOUDFLARE_API_URL")),
		option.WithAPIToken(token),
		option.WithMaxRetries(0),
	}
}

func cloudflare(ctx context.Context, c *checker) {
	options := cfOptions(env("CLOUDFLARE_TOKEN"))
	verified, err := user.NewTokenService(options...).Verify(ctx)
	if c.ok(err, "verify the token") {
		c.that(verified.Status == user.TokenVerifyResponseStatusActive, "token: %v", verified.Status)
	}
	zone := findZone(ctx, c, zones.NewZoneService(options...))
	if zone == "" {
		return
	}
	records := dns.NewRecordService(options...)
	single := oneRecord(ctx, c, records, zone)
	refusals(ctx, c, records, zone)
	batch(ctx, c, records, zone, single)
	cfPaging(ctx, c, records, zone)
	permissions(ctx, c, zone)
}

func findZone(ctx context.Context, c *checker, service *zones.ZoneService) string {
	name := env("CLOUDFLARE_ZONE")
	params := zones.ZoneListParams{}
	set(&params.Name, name)
	list, err := service.List(ctx, params)
	if !c.ok(err, "list zones") || len(list.Result) != 1 {
		c.that(false, "there is not exactly one zone %s", name)
		return ""
	}
	found := list.Result[0]
	c.that(found.Name == name && len(found.ID) == 32, "zone: %v %v", found.ID, found.Name)
	params.Name.Value = "not-ours.example"
	none, err := service.List(ctx, params)
	c.that(err == nil && len(none.Result) == 0, "a foreign zone: %v", err)
	get := zones.ZoneGetParams{}
	set(&get.ZoneID, found.ID)
	read, err := service.Get(ctx, get)
	if c.ok(err, "get the zone") {
		c.that(read.Name == name && read.Status == zones.ZoneStatusActive, "zone: %v", read.Name)
	}
	set(&get.ZoneID, "example.com")
	_, err = service.Get(ctx, get)
	c.fails(err, "get a zone by a name", "400", "7003")
	return found.ID
}

// aRecord is an A record with automatic TTL unless one is given.
func aRecord(name, address string, ttl int) dns.ARecordParam {
	record := dns.ARecordParam{}
	set(&record.Name, name)
	set(&record.Type, "A")
	set(&record.Content, address)
	if ttl != 0 {
		set(&record.TTL, float64(ttl))
	}
	return record
}

func create(
	ctx context.Context, service *dns.RecordService, zone string, record dns.RecordNewParamsBodyUnion,
) (*dns.RecordResponse, error) {
	params := dns.RecordNewParams{Body: record}
	set(&params.ZoneID, zone)
	return service.New(ctx, params)
}

// oneRecord creates, changes and reads a record, and returns its id.
func oneRecord(ctx context.Context, c *checker, service *dns.RecordService, zone string) string {
	name := "www." + env("CLOUDFLARE_ZONE")
	fresh := aRecord(name, "192.0.2.10", 0)
	set(&fresh.Proxied, true)
	set(&fresh.Comment, "by hand")
	made, err := create(ctx, service, zone, fresh)
	if !c.ok(err, "create a record") {
		return ""
	}
	c.that(made.Name == name && made.Content == "192.0.2.10" && len(made.ID) == 32, "record: %+v", made)
	c.that(made.Proxied && made.TTL == 1 && made.Proxiable && !made.CreatedOn.IsZero(), "record: %+v", made)

	edit := dns.ARecordParam{}
	set(&edit.Content, "192.0.2.11")
	set(&edit.TTL, float64(60))
	change := dns.RecordEditParams{Body: edit}
	set(&change.ZoneID, zone)
	edited, err := service.Edit(ctx, made.ID, change)
	if c.ok(err, "edit a record") {
		kept := edited.Proxied && edited.TTL == 1 && edited.Comment == "by hand"
		c.that(edited.Content == "192.0.2.11" && edited.ID == made.ID && kept, "edited: %+v", edited)
	}

	replace := dns.RecordUpdateParams{Body: aRecord(name, "192.0.2.12", 120)}
	set(&replace.ZoneID, zone)
	replaced, err := service.Update(ctx, made.ID, replace)
	if c.ok(err, "replace a record") {
		reset := !replaced.Proxied && replaced.TTL == 120 && replaced.Comment == ""
		c.that(replaced.ID == made.ID && reset, "a replaced record keeps what was not given: %+v", replaced)
	}

	get := dns.RecordGetParams{}
	set(&get.ZoneID, zone)
	read, err := service.Get(ctx, made.ID, get)
	if c.ok(err, "get a record") {
		c.that(read.Content == "192.0.2.12", "record: %+v", read)
	}
	_, err = service.Get(ctx, "00000000000000000000000000000000", get)
	c.fails(err, "get no record", "404", "81044")
	return made.ID
}

func refusals(ctx context.Context, c *checker, service *dns.RecordService, zone string) {
	name := "www." + env("CLOUDFLARE_ZONE")
	_, err := create(ctx, service, zone, aRecord(name, "192.0.2.12", 120))
	c.fails(err, "create an identical record", "400", "81058")
	_, err = create(ctx, service, zone, aRecord(name, "192.0.2.12", 300))
	c.fails(err, "create the record with another TTL", "400", "81057")
	_, err = create(ctx, service, zone, aRecord(name, "192.0.2.13", 59))
	c.fails(err, "create with a small TTL", "400", "9021")
	_, err = create(ctx, service, zone, aRecord(name, "not an address", 60))
	c.fails(err, "create without an address", "400", "9005")

	alias := dns.CNAMERecordParam{}
	set(&alias.Name, name)
	set(&alias.Type, "CNAME")
	set(&alias.Content, "example.org")
	_, err = create(ctx, service, zone, alias)
	c.fails(err, "create a CNAME beside an A", "400", "81053")
}

// batch deletes the single record and creates two; a batch with one bad change creates nothing.
func batch(ctx context.Context, c *checker, service *dns.RecordService, zone, single string) {
	name := "www." + env("CLOUDFLARE_ZONE")
	remove := dns.RecordBatchParamsDelete{}
	set(&remove.ID, single)
	bad := dns.RecordBatchParams{}
	set(&bad.ZoneID, zone)
	set(&bad.Deletes, []dns.RecordBatchParamsDelete{remove})
	set(&bad.Posts, []dns.RecordBatchParamsPostUnion{aRecord(name, "192.0.2.20", 60), aRecord(name, "bad", 60)})
	_, err := service.Batch(ctx, bad)
	c.fails(err, "a batch with a bad change", "400", "9005")
	c.that(contents(ctx, c, service, zone, name) == "[192.0.2.12]", "a failed batch changed the zone")

	good := bad
	set(&good.Posts, []dns.RecordBatchParamsPostUnion{
		aRecord(name, "192.0.2.20", 60), aRecord(name, "192.0.2.12", 60),
	})
	done, err := service.Batch(ctx, good)
	if !c.ok(err, "a batch") {
		return
	}
	c.that(len(done.Deletes) == 1 && len(done.Posts) == 2 && len(done.Patches) == 0, "batch: %+v", done)
	c.that(contents(ctx, c, service, zone, name) == "[192.0.2.20 192.0.2.12]", "the batch did something else")

	move := dns.BatchPatchARecordParam{}
	set(&move.ID, done.Posts[0].ID)
	set(&move.Content, "192.0.2.21")
	patch := dns.RecordBatchParams{}
	set(&patch.ZoneID, zone)
	set(&patch.Patches, []dns.BatchPatchUnionParam{move})
	moved, err := service.Batch(ctx, patch)
	if c.ok(err, "a batch of patches") {
		c.that(len(moved.Patches) == 1 && moved.Patches[0].TTL == 60, "batch: %+v", moved)
	}
	c.that(contents(ctx, c, service, zone, name) == "[192.0.2.21 192.0.2.12]", "the patch did something else")

	params := dns.RecordDeleteParams{}
	set(&params.ZoneID, zone)
	deleted, err := service.Delete(ctx, done.Posts[0].ID, params)
	if c.ok(err, "delete a record") {
		c.that(deleted.ID == done.Posts[0].ID, "deleted: %+v", deleted)
	}
	_, err = service.Delete(ctx, done.Posts[0].ID, params)
	c.fails(err, "delete a record again", "404", "81044")
}

// contents returns the content of a name's records, found with the exact filter.
func contents(ctx context.Context, c *checker, service *dns.RecordService, zone, name string) string {
	params := dns.RecordListParams{}
	set(&params.ZoneID, zone)
	filter := dns.RecordListParamsName{}
	set(&filter.Exact, name)
	set(&params.Name, filter)
	list, err := service.List(ctx, params)
	if !c.ok(err, "list records by name") {
		return ""
	}
	found := []string{}
	for _, record := range list.Result {
		found = append(found, record.Content)
	}
	return fmt.Sprint(found)
}

// cfPaging reads all records of the zone, two per page.
func cfPaging(ctx context.Context, c *checker, service *dns.RecordService, zone string) {
	params := dns.RecordListParams{}
	set(&params.ZoneID, zone)
	set(&params.PerPage, float64(2))
	pager, seen := service.ListAutoPaging(ctx, params), map[string]bool{}
	for pager.Next() {
		seen[pager.Current().ID] = true
	}
	c.ok(pager.Err(), "page through the records")
	want := envInt("RECORDS") + 1
	c.that(len(seen) == want, "%d records on the pages, not %d", len(seen), want)
}

func permissions(ctx context.Context, c *checker, zone string) {
	reader := cfOptions(env("CLOUDFLARE_READ_TOKEN"))
	_, err := create(ctx, dns.NewRecordService(reader...), zone, aRecord("x", "192.0.2.1", 60))
	c.fails(err, "write without permission", "403", "10000")
	list, err := zones.NewZoneService(reader...).List(ctx, zones.ZoneListParams{})
	c.that(err == nil && len(list.Result) == 0, "zones without permission: %v", err)

	var answer *http.Response
	unknown := append(cfOptions("0123456789012345678901234567890123456789"), option.WithResponseInto(&answer))
	_, err = user.NewTokenService(unknown...).Verify(ctx)
	c.fails(err, "verify an unknown token", "401", "1000")
	c.that(answer != nil && answer.Header.Get("Ratelimit-Policy") != "", "no Ratelimit-Policy header")
}
