//! Makes a struct a resource for kube.
//!
//! For custom resources, kube's own derive requires a `spec`, but the Go operator's CRDs allow an object without one.
//! With the derive such an object would be undecodable. With `custom_resource!` it is an empty pool.

/// The part of `kube::Resource` that names a kind: its scope, kind, group, version and plural.
macro_rules! names {
    ($scope:ty, [$kind:expr, $group:expr, $version:expr, $plural:expr]) => {
        type DynamicType = ();
        type Scope = $scope;

        fn kind((): &()) -> std::borrow::Cow<'_, str> {
            $kind
        }
        fn group((): &()) -> std::borrow::Cow<'_, str> {
            $group
        }
        fn version((): &()) -> std::borrow::Cow<'_, str> {
            $version
        }
        fn plural((): &()) -> std::borrow::Cow<'_, str> {
            $plural
        }
    };
    ($inner:ident) => {
        crate::api::resource::names!(
            $inner::Scope,
            [$inner::kind(&()), $inner::group(&()), $inner::version(&()), $inner::plural(&())]
        );
    };
}

/// Implements `kube::Resource` for a struct with the field `metadata`. The texts are its kind, group, version and
/// plural.
macro_rules! resource {
    ($name:ident, $scope:ident, [$kind:expr, $group:expr, $version:expr, $plural:expr]) => {
        impl kube::Resource for $name {
            crate::api::resource::names!(
                kube::core::$scope,
                [$kind.into(), $group.into(), $version.into(), $plural.into()]
            );
            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// Declares a kind of ours, which implements `kube::Resource`, `Serialize` (with `apiVersion` and `kind`) and
/// `Conditioned`.
macro_rules! custom_resource {
    (
        $(#[$about:meta])*
        $root:ident is $kind:ident, with $spec:ident and $status:ident, plural $plural:literal
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, serde::Deserialize)]
        pub struct $root {
            /// Standard object metadata, as far as decisions use it.
            #[serde(default, deserialize_with = "crate::api::bounded::metadata")]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// The desired state.
            #[serde(default, deserialize_with = "crate::api::bounded::spec")]
            pub spec: $spec,
            /// The observed state.
            pub status: Option<$status>,
        }

        impl $root {
            /// An object with this name and spec, without namespace and status.
            pub fn new(name: &str, spec: $spec) -> Self {
                let mut object = Self { spec, ..Self::default() };
                object.metadata.name = Some(name.to_owned());
                object
            }
        }

        impl crate::api::bounded::Bounded for $spec {
            fn too_large(&mut self) -> &mut Vec<TooLarge> {
                &mut self.too_large
            }
        }

        impl crate::api::Conditioned for $root {
            const KIND: flipop_core::model::ObjectKind = flipop_core::model::ObjectKind::$kind;

            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().map_or(&[], |status| &status.conditions)
            }
        }

        crate::api::resource::resource!(
            $root,
            NamespaceResourceScope,
            [stringify!($root), crate::api::GROUP, crate::api::VERSION, $plural]
        );

        impl serde::Serialize for $root {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let fields = 4 + usize::from(self.status.is_some());
                let mut object = serializer.serialize_struct(stringify!($root), fields)?;
                object.serialize_field("apiVersion", &<Self as kube::Resource>::api_version(&()))?;
                object.serialize_field("kind", stringify!($root))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                if let Some(status) = &self.status {
                    object.serialize_field("status", status)?;
                }
                object.end()
            }
        }
    };
}

pub(super) use custom_resource;
pub(crate) use {names, resource};
