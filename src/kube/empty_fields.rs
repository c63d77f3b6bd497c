//! Reads a kubeconfig as client-go does: an empty string counts as an absent field, and base64 may contain line breaks.
//! kube takes both literally, so it fails, or sends an empty credential beside the good one.

use kube::config::{AuthInfo, Cluster, Kubeconfig};
use secrecy::{ExposeSecret as _, SecretString};
use std::path::Path;

/// Removes empty fields. `folder` holds the file; kube has already joined the paths in the file to it.
pub(super) fn take_out(file: &mut Kubeconfig, folder: &Path) {
    let blank_path = folder.join("");
    for text in [&mut file.current_context, &mut file.kind, &mut file.api_version] {
        filled(text);
    }
    for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        of_cluster(cluster, &blank_path);
    }
    for user in file.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        of_user(user, &blank_path);
    }
    for context in file.contexts.iter_mut().filter_map(|named| named.context.as_mut()) {
        filled(&mut context.user);
        filled(&mut context.namespace);
    }
}

fn of_cluster(cluster: &mut Cluster, blank_path: &Path) {
    for text in [&mut cluster.server, &mut cluster.proxy_url, &mut cluster.tls_server_name] {
        filled(text);
    }
    named(&mut cluster.certificate_authority, blank_path);
    joined(&mut cluster.certificate_authority_data);
}

fn of_user(user: &mut AuthInfo, blank_path: &Path) {
    for text in [&mut user.username, &mut user.impersonate, &mut user.impersonate_uid] {
        filled(text);
    }
    for secret in [&mut user.password, &mut user.token] {
        secret.take_if(|secret| secret.expose_secret().is_empty());
    }
    for path in [&mut user.token_file, &mut user.client_certificate, &mut user.client_key] {
        named(path, blank_path);
    }
    joined(&mut user.client_certificate_data);
    let mut key = user.client_key_data.take().map(|key| key.expose_secret().to_owned());
    joined(&mut key);
    user.client_key_data = key.map(SecretString::from);
    if user.client_certificate.is_none() && user.client_certificate_data.is_none() {
        // As in client-go, a key alone is no credential.
        (user.client_key, user.client_key_data) = (None, None);
    }
    user.impersonate_groups.take_if(|groups| groups.is_empty());
    if let Some(exec) = &mut user.exec {
        filled(&mut exec.command);
        filled(&mut exec.api_version);
    }
    if let Some(provider) = &mut user.auth_provider {
        provider.config.retain(|_, value| !value.is_empty());
    }
    if user.username.is_some() {
        // As in client-go, a name alone has an empty password; it does not count as no user.
        user.password.get_or_insert_default();
    }
}

fn filled(text: &mut Option<String>) {
    text.take_if(|text| text.is_empty());
}

/// kube has turned an empty path into the folder itself.
fn named(path: &mut Option<String>, blank: &Path) {
    path.take_if(|path| path.is_empty() || Path::new(path).as_os_str() == blank.as_os_str());
}

fn joined(base64: &mut Option<String>) {
    if let Some(text) = base64 {
        text.retain(|character| !character.is_ascii_whitespace());
    }
    filled(base64);
}

#[cfg(test)]
#[path = "empty_fields_tests.rs"]
mod tests;
