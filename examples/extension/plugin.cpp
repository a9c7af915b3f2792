// The plug-in of `--extension FILE`: one function, which adds everything of the library.
#include "extension/clip_extension.h"
#include "reprise/compile/model/extension_plugin.h"

extern "C" __attribute__((visibility("default"))) bool reprise_extend(
    uint32_t version, reprise::compile::Extensions& extensions) {
  if (version != reprise::compile::kExtensionVersion) return false;
  example::add_clip_extension(extensions);
  return true;
}
