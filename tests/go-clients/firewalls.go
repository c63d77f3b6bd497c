package main

import (
	"context"
	"strconv"
	"time"

	"github.com/digitalocean/godo"
)

func inbound(ports ...string) []godo.InboundRule {
	var rules []godo.InboundRule
	for _, port := range ports {
		sources := &godo.Sources{Addresses: []string{"0.0.0.0/0", "::/0"}}
		rules = append(rules, godo.InboundRule{Protocol: "tcp", PortRange: port, Sources: sources})
	}
	return rules
}

// firewalls takes one through its life: created with droplets, filled, changed by rule, by droplet and by tag, deleted.
func firewalls(ctx context.Context, c *checker, client *godo.Client) {
	a, b := envInt("DROPLET_A"), envInt("DROPLET_B")
	request := &godo.FirewallRequest{Name: "flipop-0123abcd-1", InboundRules: inbound("443"), DropletIDs: []int{a}}
	made, response, err := client.Firewalls.Create(ctx, request)
	if !c.ok(err, "create a firewall") {
		return
	}
	c.that(response.StatusCode == 202 && made.ID != "" && made.Name == request.Name, "firewall: %v", made)
	c.that(made.Status == "waiting" && len(made.PendingChanges) == 1, "a new firewall is pending: %v", made)
	c.that(made.PendingChanges[0].DropletID == a && !made.PendingChanges[0].Removing, "pending: %v", made)
	for made.Status == "waiting" {
		time.Sleep(10 * time.Millisecond)
		if made, _, err = client.Firewalls.Get(ctx, made.ID); !c.ok(err, "get the firewall") {
			return
		}
	}
	c.that(made.Status == "succeeded" && len(made.PendingChanges) == 0, "firewall: %v", made)

	_, _, err = client.Firewalls.Create(ctx, request)
	c.that(status(err) == 409, "create under a name that is taken: %v", err)
	for _, wrong := range []godo.FirewallRequest{
		{Name: "empty"},
		{Name: "-x", InboundRules: inbound("443")},
		{Name: "ports", InboundRules: inbound("70000")},
		{Name: "droplet", InboundRules: inbound("443"), DropletIDs: []int{1}},
		{Name: "tag", InboundRules: inbound("443"), Tags: []string{"nobody-has-it"}},
	} {
		_, _, err = client.Firewalls.Create(ctx, &wrong)
		c.that(status(err) == 400, "create %v: %v", wrong, err)
	}

	response, err = client.Firewalls.AddDroplets(ctx, made.ID, b)
	c.that(err == nil && response.StatusCode == 204, "add a droplet: %v", err)
	_, err = client.Firewalls.AddRules(ctx, made.ID, &godo.FirewallRulesRequest{InboundRules: inbound("80", "8000-8100")})
	c.ok(err, "add rules")
	_, err = client.Firewalls.RemoveRules(ctx, made.ID, &godo.FirewallRulesRequest{InboundRules: inbound("443")})
	c.ok(err, "remove a rule")
	_, err = client.Firewalls.RemoveDroplets(ctx, made.ID, a)
	c.ok(err, "remove a droplet")
	list, _, err := client.Firewalls.List(ctx, &godo.ListOptions{PerPage: 200})
	if c.ok(err, "list firewalls") {
		c.that(len(list) == 1 && len(list[0].InboundRules) == 2, "firewalls: %v", list)
		c.that(len(list[0].DropletIDs) == 1 && list[0].DropletIDs[0] == b, "droplets: %v", list)
		c.that(list[0].InboundRules[1].Sources.Addresses[1] == "::/0", "sources: %v", list)
	}
	of, _, err := client.Firewalls.ListByDroplet(ctx, a, nil)
	c.that(err == nil && len(of) == 0, "firewalls of a droplet that left: %v, %v", of, err)
	tags(ctx, c, client, made.ID, a)

	reset, _, err := client.Firewalls.Update(ctx, made.ID, &godo.FirewallRequest{Name: "renamed", InboundRules: inbound("22")})
	if c.ok(err, "update") {
		c.that(len(reset.DropletIDs) == 0 && len(reset.Tags) == 0, "an update resets what it leaves out: %v", reset)
	}
	response, err = client.Firewalls.Delete(ctx, made.ID)
	c.that(err == nil && response.StatusCode == 204, "delete: %v", err)
	_, err = client.Firewalls.Delete(ctx, made.ID)
	c.that(status(err) == 404, "delete again: %v", err)
}

// tags covers a droplet by a tag.
func tags(ctx context.Context, c *checker, client *godo.Client, id string, droplet int) {
	tag, response, err := client.Tags.Create(ctx, &godo.TagCreateRequest{Name: "edge"})
	c.that(err == nil && response.StatusCode == 201 && tag.Name == "edge", "create a tag: %v", err)
	resources := []godo.Resource{{ID: strconv.Itoa(droplet), Type: godo.DropletResourceType}}
	_, err = client.Tags.TagResources(ctx, "edge", &godo.TagResourcesRequest{Resources: resources})
	c.ok(err, "tag a droplet")
	_, err = client.Firewalls.AddTags(ctx, id, "edge")
	c.ok(err, "add a tag")
	of, _, err := client.Firewalls.ListByDroplet(ctx, droplet, nil)
	c.that(err == nil && len(of) == 1 && len(of[0].Tags) == 1, "firewalls of a tagged droplet: %v, %v", of, err)
	found, _, err := client.Droplets.ListByTag(ctx, "edge", nil)
	c.that(err == nil && len(found) == 1 && found[0].ID == droplet, "droplets of a tag: %v, %v", found, err)
	all, _, err := client.Tags.List(ctx, &godo.ListOptions{PerPage: 200})
	c.that(err == nil && len(all) == 3, "tags: %v, %v", all, err)
	_, err = client.Tags.UntagResources(ctx, "edge", &godo.UntagResourcesRequest{Resources: resources})
	c.ok(err, "untag a droplet")
	_, err = client.Firewalls.RemoveTags(ctx, id, "edge")
	c.ok(err, "remove a tag")
}
