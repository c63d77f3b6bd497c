//! The kind `NodeDNSRecordSet`.

use super::page::Page;
use super::{fields, floatingippool};

const KIND: &str = "NodeDNSRecordSet";

pub(crate) fn render() -> String {
    let mut page = Page::new(
        KIND,
        "For authors of manifests: every field of a NodeDNSRecordSet. It keeps one DNS name on the addresses of matching \
         nodes, with or without reserved IPs.",
    );
    page.paragraph(
        "An example is in [DNS at another \
         provider](../recipes/dns-elsewhere.md). How FLIPOP decides is in [Which nodes \
         match](../concepts/matching.md) and [DNS records](../concepts/records.md).",
    );
    fields::names(&mut page, KIND);
    fields::fields(&mut page, KIND, "spec");
    page.paragraph(
        "A mistake in a spec stops the object alone, and its records stay as they are. A mistake in `grace` or \
         `nodeCheck` only switches off that field. An [admission \
         warning](warnings.md) reports many mistakes when the object is applied.",
    );
    fields::fields(&mut page, KIND, "status");
    fields::columns(&mut page, KIND);
    page.paragraph("[Conditions](conditions.md) explains every reason.");
    page.heading(2, "Sources");
    page.list([
        "[Label selectors](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors) \
         and [taints and tolerations](https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/) \
         in the Kubernetes documentation",
        floatingippool::TTL,
    ]);
    page.end()
}
