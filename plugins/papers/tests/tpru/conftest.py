"""What tests of sentences share: an encoder of transformers, as small as can be."""

from tiny_encoders import encoder as encoder
