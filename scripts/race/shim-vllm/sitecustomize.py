# Lets vllm.benchmarks be imported without the engine around it, which needs PyTorch. What measures is vLLM's own code;
# what is replaced here prepares: the tokenizer is loaded by transformers, arguments are parsed by argparse.
import argparse, importlib.machinery, logging, os, sys, types
from unittest.mock import MagicMock
HOME = os.environ["PYTHONPATH"].split(":")[0]
EMPTY = ("vllm", "vllm.utils", "vllm.entrypoints", "vllm.entrypoints.cli")
UNUSED = ("vllm.multimodal", "vllm.lora", "vllm.inputs", "vllm.transformers_utils", "vllm.config", "vllm.envs", "torch")
class Light:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in EMPTY or name.startswith(UNUSED):
            spec = importlib.machinery.ModuleSpec(name, Light, is_package=True)
            spec.submodule_search_locations = [os.path.join(HOME, *name.split("."))]
            return spec
    @staticmethod
    def create_module(spec):
        if spec.name in EMPTY:
            return None
        m = MagicMock(name=spec.name)
        m.__path__, m.__spec__ = [], spec
        return m
    @staticmethod
    def exec_module(module):
        pass
sys.meta_path.insert(0, Light)
def make(name, **what):
    m = types.ModuleType(name)
    m.__dict__.update(what)
    sys.modules[name] = m
def get_tokenizer(path, **kw):
    from transformers import AutoTokenizer
    return AutoTokenizer.from_pretrained(path)
make("vllm.tokenizers", TokenizerLike=object, get_tokenizer=get_tokenizer)
make("vllm.utils.argparse_utils", FlexibleArgumentParser=argparse.ArgumentParser)
make("vllm.logger", init_logger=logging.getLogger)
