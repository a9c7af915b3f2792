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

    def test_a_layer_is_the_deepest_folder_of_the_table(self):
        self.assertEqual(include_edges.layer_of("reprise/cudagraph/cudagraph_dispatcher.h"), "cudagraph")
        self.assertEqual(include_edges.layer_of("reprise/cudagraph/capture/cudagraph_wrapper.h"), "cudagraph/capture")
        self.assertEqual(include_edges.layer_of("src/reprise/compile/cache/entry_reader.cpp"), "compile/cache")
        self.assertEqual(include_edges.layer_of("reprise/device/cpu/cpu_device.h"), "device")

    def test_a_fixture_in_the_product_is_found(self):
        planted = '#include "tests/support/fake_device/fake_device.h"\n'
        self.assertEqual(len(include_edges.violations("src/reprise/engine/x.cpp", planted)), 1)
        self.assertEqual(include_edges.violations("src/reprise/engine/x_test.cpp", planted), [])

    def test_a_planted_upward_edge_is_found(self):
        found = include_edges.violations(
            "src/reprise/device/cpu/x.cpp", '#include "reprise/scheduler/scheduler.h"\n'
        )
        self.assertEqual(len(found), 1)
        self.assertIn("device includes reprise/scheduler/scheduler.h", found[0])

    def test_a_device_type_in_the_dispatcher_half_is_found(self):
        planted = '  #  include "reprise/device/device.h"\n'
        self.assertEqual(len(include_edges.violations("src/reprise/config/explain.h", planted)), 1)
        self.assertEqual(include_edges.violations("src/reprise/cudagraph/capture/capture_session.h", planted), [])

    def test_models_see_of_graphs_only_the_forward_context(self):
        def check(header):
            return include_edges.violations("src/reprise/models/x.h", f'#include "reprise/cudagraph/capture/{header}"\n')

        self.assertEqual(check("forward_context.h"), [])
        self.assertEqual(len(check("cudagraph_wrapper.h")), 1)

    def test_an_edge_to_a_room_above_is_found(self):
        planted = '#include "reprise/api/loading/engine_loader.h"\n'
        self.assertEqual(len(include_edges.violations("src/reprise/api/options/x.cpp", planted)), 1)
        self.assertEqual(include_edges.violations("src/reprise/api/graphs/x.cpp", planted), [])
        self.assertEqual(include_edges.violations("src/reprise/api/llm.cpp", planted), [])

    def test_every_room_of_the_table_is_a_folder(self):
        for layer, rooms in include_edges.ROOMS.items():
            for room in rooms:
                self.assertTrue((source_tree.ROOT / "src/reprise" / layer / room).is_dir(), f"{layer}/{room}")

    def test_a_folder_outside_the_table_is_found(self):
        self.assertEqual(len(include_edges.violations("src/reprise/novelty/x.h", "")), 1)


if __name__ == "__main__":
    unittest.main()
