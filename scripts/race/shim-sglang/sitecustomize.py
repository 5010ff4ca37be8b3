# Finds two small helpers of the client without importing the engine around them, which needs PyTorch.
import importlib.machinery, os, sys, types
HOME = os.environ["PYTHONPATH"].split(":")[0]
EMPTY = ("sglang", "sglang.srt", "sglang.srt.utils", "sglang.srt.disaggregation")
class Light:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in EMPTY:
            spec = importlib.machinery.ModuleSpec(name, Light, is_package=True)
            spec.submodule_search_locations = [os.path.join(HOME, *name.split("."))]
            return spec
    @staticmethod
    def create_module(spec):
        return None
    @staticmethod
    def exec_module(module):
        pass
sys.meta_path.insert(0, Light)
utils = types.ModuleType("sglang.srt.disaggregation.utils")
utils.FAKE_BOOTSTRAP_HOST = "2.2.2.2"
sys.modules["sglang.srt.disaggregation.utils"] = utils
