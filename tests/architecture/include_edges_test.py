import unittest

import include_edges
import source_tree


class IncludeEdges(unittest.TestCase):
    def test_the_source_has_only_edges_of_the_table(self):
        paths = source_tree.code_files()
        self.assertGreater(len(paths), 100, "the test looks into the wrong folder")
        found = [
            sentence
            for path in paths
            if path.count("/") > 2
            for sentence in include_edges.violations(path, source_tree.read(path))
        ]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_the_table_has_no_cycle(self):
        self.assertEqual(include_edges.cycles(), [])

    def test_parts_of_folders_are_read_from_their_cmake_files(self):
        self.assertEqual(include_edges.layer_of("reprise/cudagraph/cudagraph_dispatcher.h"), "cudagraph_dispatch")
        self.assertEqual(include_edges.layer_of("reprise/cudagraph/cudagraph_wrapper.h"), "cudagraph")
        self.assertEqual(include_edges.layer_of("src/reprise/engine/scheduler_test.cpp"), "engine_scheduler")
        self.assertEqual(include_edges.layer_of("reprise/kv_cache/kv_cache_tensors.h"), "kv_cache_tensors")
        self.assertEqual(include_edges.layer_of("src/reprise/compile/cache/entry_reader.cpp"), "compile_cache")
        self.assertEqual(include_edges.layer_of("reprise/device/cpu/cpu_device.h"), "device")

    def test_a_planted_upward_edge_is_found(self):
        found = include_edges.violations(
            "src/reprise/device/cpu/x.cpp", '#include "reprise/engine/scheduler.h"\n'
        )
        self.assertEqual(len(found), 1)
        self.assertIn("device includes reprise/engine/scheduler.h", found[0])

    def test_a_device_type_in_the_dispatcher_half_is_found(self):
        planted = '  #  include "reprise/device/device.h"\n'
        self.assertEqual(len(include_edges.violations("src/reprise/cudagraph/explain.h", planted)), 1)
        self.assertEqual(include_edges.violations("src/reprise/cudagraph/capture_session.h", planted), [])

    def test_models_see_of_graphs_only_the_forward_context(self):
        def check(header):
            return include_edges.violations("src/reprise/models/x.h", f'#include "reprise/cudagraph/{header}"\n')

        self.assertEqual(check("forward_context.h"), [])
        self.assertEqual(len(check("cudagraph_wrapper.h")), 1)

    def test_a_folder_outside_the_table_is_found(self):
        self.assertEqual(len(include_edges.violations("src/reprise/novelty/x.h", "")), 1)


if __name__ == "__main__":
    unittest.main()
