//! Enums that the documentation lists: each variant has a word and a meaning.
//! The meaning is the variant's doc comment, so code and documentation share one list. No enum is defined here.

/// Declares an enum whose variants have a word (or number) and a meaning, taken from their doc comments.
///
/// The enum gets `ALL`, `meaning`, and a method of the given name that returns the word.
#[macro_export]
macro_rules! described {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $( $(#[doc = $meaning:literal])+ $variant:ident = $word:literal, )+
        }
        $(#[doc = $about:literal])+
        fn $method:ident -> $type:ty;
    ) => {
        $(#[$attribute])*
        $visibility enum $name {
            $( $(#[doc = $meaning])+ $variant, )+
        }

        impl $name {
            /// All variants, in declaration order.
            $visibility const ALL: &'static [Self] = &[$( Self::$variant ),+];

            $(#[doc = $about])+
            #[must_use]
            $visibility const fn $method(self) -> $type {
                match self {
                    $( Self::$variant => $word, )+
                }
            }

            /// The meaning, as the documentation gives it: plain text, with code between backquotes.
            #[must_use]
            $visibility const fn meaning(self) -> &'static str {
                match self {
                    $( Self::$variant => concat!($($meaning),+), )+
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    described! {
        /// A light.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Light {
            /// Walk
            /// now.
            Green = "green",
            /// Wait.
            Red = "red",
        }
        /// The word.
        fn as_str -> &'static str;
    }

    #[test]
    fn each_variant_has_its_word_and_its_documentation() {
        let described: Vec<_> = Light::ALL.iter().map(|light| (light.as_str(), light.meaning())).collect();
        assert_eq!(described, [("green", " Walk now."), ("red", " Wait.")]);
    }
}
