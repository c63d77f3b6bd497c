//! The kind `NodeDNSRecordSet`.

use super::fields;
use super::page::Page;

const KIND: &str = "NodeDNSRecordSet";

pub(crate) fn render() -> String {
    let mut page = Page::new(
        KIND,
        "For authors of manifests: every field of a NodeDNSRecordSet. It keeps one DNS name on the addresses of matching \
         nodes, with or without reserved IPs.",
    );
    page.paragraph(
        "An example is in [DNS at another provider](../recipes/dns-elsewhere.md). [FloatingIPPool](floatingippool.md) \
         describes the objects that both kinds share.",
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
    page.end()
}
