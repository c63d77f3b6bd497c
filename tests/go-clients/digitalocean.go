package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/digitalocean/godo"
)

func doClient(c *checker, token string) *godo.Client {
	client, err := godo.New(
		&http.Client{Transport: bearer{token}},
		godo.SetBaseURL(env("DIGITALOCEAN_API_URL")),
	)
	c.ok(err, "godo.New")
	return client
}

// bearer adds the token; godo's own way would bring its retries, which hide what the server does.
type bearer struct{ token string }

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(request)
}

func digitalOcean(ctx context.Context, c *checker) {
	client := doClient(c, env("DIGITALOCEAN_ACCESS_TOKEN"))
	account(ctx, c, client)
	reservedIPs(ctx, c, client)
	doPaging(ctx, c, client)
	domainRecords(ctx, c, client)
	firewalls(ctx, c, client)

	_, _, err := doClient(c, "unknown").ReservedIPs.List(ctx, nil)
	c.that(status(err) == 401, "unknown token: %v", err)
}

// status is the HTTP status of an error of godo.
func status(err error) int {
	var response *godo.ErrorResponse
	if errors.As(err, &response) {
		return response.Response.StatusCode
	}
	return 0
}

func account(ctx context.Context, c *checker, client *godo.Client) {
	account, response, err := client.Account.Get(ctx)
	if !c.ok(err, "account") {
		return
	}
	c.that(account.Status == "active" && account.ReservedIPLimit > 0, "account: %+v", account)
	rate := response.Rate
	c.that(rate.Limit == 5000 && rate.Remaining < rate.Limit, "rate: %+v", rate)
	c.that(rate.Reset.After(time.Now()) && rate.Reset.Before(time.Now().Add(2*time.Hour)), "reset: %v", rate.Reset)
}

func reservedIPs(ctx context.Context, c *checker, client *godo.Client) {
	first, second, elsewhere := envInt("DROPLET_A"), envInt("DROPLET_B"), envInt("DROPLET_ELSEWHERE")
	droplets, _, err := client.Droplets.List(ctx, &godo.ListOptions{PerPage: 1})
	if c.ok(err, "list droplets") {
		c.that(len(droplets) == 1 && droplets[0].ID != 0 && droplets[0].Region.Slug != "", "droplets: %v", droplets)
	}

	made, response, err := client.ReservedIPs.Create(ctx, &godo.ReservedIPCreateRequest{Region: "nyc3"})
	if !c.ok(err, "create a reserved IP") {
		return
	}
	c.that(response.StatusCode == 202, "create: status %d", response.StatusCode)
	c.that(made.IP != "" && made.Droplet == nil && made.Region.Slug == "nyc3", "created: %v", made)
	_, _, err = client.ReservedIPs.Create(ctx, &godo.ReservedIPCreateRequest{Region: "nyc3", DropletID: first})
	c.that(status(err) == 422, "create with both: %v", err)

	assign(ctx, c, client, made.IP, first)
	assign(ctx, c, client, made.IP, second)

	other, _, err := client.ReservedIPs.Create(ctx, &godo.ReservedIPCreateRequest{DropletID: first})
	if c.ok(err, "create on a droplet") {
		_, _, err = client.ReservedIPActions.Assign(ctx, other.IP, second)
		c.that(status(err) == 422, "assign to a taken droplet: %v", err)
	}
	_, _, err = client.ReservedIPActions.Assign(ctx, made.IP, elsewhere)
	c.that(status(err) == 422, "assign to another datacenter: %v", err)
	_, _, err = client.ReservedIPActions.Assign(ctx, made.IP, 1)
	c.that(status(err) == 404, "assign to no droplet: %v", err)
	_, _, err = client.ReservedIPs.Get(ctx, "192.0.2.1")
	c.that(status(err) == 404, "get a foreign address: %v", err)

	off, response, err := client.ReservedIPActions.Unassign(ctx, made.IP)
	if c.ok(err, "unassign") {
		c.that(response.StatusCode == 201 && off.Type == "unassign_ip", "unassign: %v", off)
		_, err = client.ReservedIPs.Delete(ctx, made.IP)
		c.that(status(err) == 422, "delete while an action is pending: %v", err)
		follow(ctx, c, client, made.IP, off)
	}
	actions, _, err := client.ReservedIPActions.List(ctx, made.IP, nil)
	if c.ok(err, "list actions") {
		c.that(len(actions) == 4, "actions: %v", actions)
	}
	response, err = client.ReservedIPs.Delete(ctx, made.IP)
	if c.ok(err, "delete") {
		c.that(response.StatusCode == 204, "delete: status %d", response.StatusCode)
	}
	gone(ctx, c, client, made.IP)
}

// gone expects that every way to a deleted address says so.
func gone(ctx context.Context, c *checker, client *godo.Client, ip string) {
	_, _, err := client.ReservedIPs.Get(ctx, ip)
	c.that(status(err) == 404, "get a deleted address: %v", err)
	_, err = client.ReservedIPs.Delete(ctx, ip)
	c.that(status(err) == 404, "delete a deleted address: %v", err)
	_, _, err = client.ReservedIPActions.Assign(ctx, ip, envInt("DROPLET_A"))
	c.that(status(err) == 404, "assign a deleted address: %v", err)
	listed, _, err := client.ReservedIPs.List(ctx, &godo.ListOptions{PerPage: 200})
	if c.ok(err, "list addresses") {
		for _, other := range listed {
			c.that(other.IP != ip, "a deleted address is listed: %v", other)
		}
	}
}

// assign moves the address and waits until it stands on the droplet.
func assign(ctx context.Context, c *checker, client *godo.Client, ip string, droplet int) {
	action, response, err := client.ReservedIPActions.Assign(ctx, ip, droplet)
	if !c.ok(err, "assign") {
		return
	}
	c.that(response.StatusCode == 201, "assign: status %d", response.StatusCode)
	c.that(action.Type == "assign_ip" && action.Status == godo.ActionInProgress, "action: %v", action)
	c.that(action.RegionSlug == "nyc3" && action.StartedAt != nil, "action: %v", action)
	follow(ctx, c, client, ip, action)
	read, _, err := client.ReservedIPs.Get(ctx, ip)
	if c.ok(err, "get the address") {
		c.that(read.Droplet != nil && read.Droplet.ID == droplet && !read.Locked, "address: %v", read)
	}
}

// follow polls an action to its end, which must be a good one.
func follow(ctx context.Context, c *checker, client *godo.Client, ip string, action *godo.Action) {
	for action.Status == godo.ActionInProgress {
		time.Sleep(10 * time.Millisecond)
		next, _, err := client.ReservedIPActions.Get(ctx, ip, action.ID)
		if !c.ok(err, "get the action") {
			return
		}
		action = next
	}
	c.that(action.Status == godo.ActionCompleted && action.CompletedAt != nil, "action: %v", action)
}

// doPaging walks through more addresses than fit on a page.
func doPaging(ctx context.Context, c *checker, client *godo.Client) {
	options, seen, pages := &godo.ListOptions{PerPage: 2}, map[string]bool{}, 0
	for {
		ips, response, err := client.ReservedIPs.List(ctx, options)
		if !c.ok(err, "list reserved IPs") {
			return
		}
		for _, ip := range ips {
			seen[ip.IP] = true
		}
		pages++
		c.that(response.Meta != nil && response.Meta.Total == envInt("IPS")+1, "meta: %v", response.Meta)
		if response.Links == nil || response.Links.IsLastPage() {
			break
		}
		page, err := response.Links.CurrentPage()
		if !c.ok(err, "current page") {
			return
		}
		next, err := url.Parse(response.Links.Pages.Next)
		c.that(err == nil && next.IsAbs(), "next is not absolute: %q", response.Links.Pages.Next)
		options.Page = page + 1
	}
	want := envInt("IPS") + 1
	c.that(len(seen) == want && pages == (want+1)/2, "%d addresses on %d pages, not %d", len(seen), pages, want)
}

func domainRecords(ctx context.Context, c *checker, client *godo.Client) {
	zone := env("DIGITALOCEAN_ZONE")
	domain, _, err := client.Domains.Get(ctx, zone)
	if c.ok(err, "get the domain") {
		c.that(domain.Name == zone && domain.TTL == 1800, "domain: %v", domain)
	}
	request := &godo.DomainRecordEditRequest{Type: "A", Name: "www", Data: "192.0.2.10", TTL: 60}
	record, response, err := client.Domains.CreateRecord(ctx, zone, request)
	if !c.ok(err, "create a record") {
		return
	}
	c.that(response.StatusCode == 201, "create a record: status %d", response.StatusCode)
	c.that(record.Name == "www" && record.Data == "192.0.2.10" && record.TTL == 60, "record: %v", record)

	edit := &godo.DomainRecordEditRequest{Type: "A", Name: "www", Data: "192.0.2.11", TTL: 30}
	edited, _, err := client.Domains.EditRecord(ctx, zone, record.ID, edit)
	if c.ok(err, "edit a record") {
		c.that(edited.ID == record.ID && edited.Data == "192.0.2.11" && edited.TTL == 30, "record: %v", edited)
	}
	found, _, err := client.Domains.RecordsByName(ctx, zone, "www."+zone, nil)
	c.that(err == nil && len(found) == 1, "records by full name: %v, %v", found, err)
	found, _, err = client.Domains.RecordsByName(ctx, zone, "www", nil)
	c.that(err == nil && len(found) == 0, "records by relative name: %v, %v", found, err)
	found, _, err = client.Domains.RecordsByTypeAndName(ctx, zone, "A", "www."+zone, nil)
	c.that(err == nil && len(found) == 1, "records by type and name: %v, %v", found, err)

	for _, wrong := range []godo.DomainRecordEditRequest{
		{Type: "A", Name: "www", Data: "192.0.2.10", TTL: 29},
		{Type: "A", Name: "www", Data: "2001:db8::1"},
		{Type: "A", Name: "www"},
		{Type: "CNAME", Name: "www", Data: "example.org."},
		{Type: "CNAME", Name: "alias", Data: "example.org"},
	} {
		_, _, err = client.Domains.CreateRecord(ctx, zone, &wrong)
		c.that(status(err) == 422, "create %v: %v", wrong, err)
	}
	_, _, err = client.Domains.Records(ctx, "not-ours.example", nil)
	c.that(status(err) == 404, "records of a foreign zone: %v", err)

	response, err = client.Domains.DeleteRecord(ctx, zone, record.ID)
	if c.ok(err, "delete a record") {
		c.that(response.StatusCode == 204, "delete a record: status %d", response.StatusCode)
	}
	_, err = client.Domains.DeleteRecord(ctx, zone, record.ID)
	c.that(status(err) == 404, "delete record %d again: %v", record.ID, err)
}
