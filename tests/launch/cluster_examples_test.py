"""The examples for clusters: well-formed, and their commands are ours."""

import contextlib
import os
import pathlib
import signal
import subprocess

import pytest
import yaml

from impala_tf.cli.roles import flags as role_flags
from impala_tf.runs import gin_config
from tests.fixtures import programs

_LAUNCH = programs.ROOT / 'launch'
_MANIFESTS = sorted((_LAUNCH / 'kubernetes').glob('*.yaml'))
_PEERS = {'app': 'impala', 'role': 'actor'}


def _check_role(arguments):
  """Returns the flags; raises if a role would refuse them at once."""
  args = role_flags.make_parser('').parse_args(arguments)
  role_flags.check(args)
  if args.config:
    gin_config.load(args.config, args.gin_binding)
  return args


# Slurm. Stand-ins for its programs run the script as it is.

_SRUN = """#!/bin/bash
for flag; do
  case "$flag" in
    --ntasks=*) ntasks="${flag#*=}" ;;
    --*) ;;
    *) break ;;
  esac
  shift
done
for ((i = 0; i < ntasks; i++)); do SLURM_PROCID="$i" "$@" & done
for ((i = 0; i < ntasks; i++)); do wait -n || code=$?; done
exit "${code:-0}"
"""
_SCONTROL = """#!/bin/bash
[[ "$*" == 'show hostnames node[3-4]' ]] && printf 'node3\\nnode4\\n'
"""
_ROLE = """#!/bin/bash
printf '%s\\0' "$@" > "$LOG/.$BASHPID"
mv "$LOG/.$BASHPID" "$LOG/$BASHPID"
if [[ "$1" == learner ]]; then
  until [[ "$(ls "$LOG" | wc -l)" == 65 ]]; do sleep 0.05; done
  exit "$LEARNER_EXIT_CODE"
fi
exec sleep 1000
"""


@pytest.mark.parametrize('code', [0, 143])
def test_slurm_script_starts_a_learner_and_its_actors(tmp_path, code):
  for name, text in (
      ('bin/srun', _SRUN), ('bin/scontrol', _SCONTROL),
      ('launch/setup.sh', '#!/bin/bash\ntouch set_up\n'),
      ('launch/role.sh', _ROLE)):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
  log = tmp_path / 'log'
  log.mkdir()
  config = 'configs/atari/pong.gin'
  # Slurm ends all that is left when it ends.
  process = subprocess.Popen(
      [_LAUNCH / 'slurm' / 'train.sbatch', config, 'runs/my run'],
      start_new_session=True, cwd=tmp_path, env={
          'PATH': f'{tmp_path / "bin"}:{os.environ["PATH"]}', 'LOG': str(log),
          'SLURM_SUBMIT_DIR': str(tmp_path), 'SLURM_JOB_ID': '1234567',
          'SLURM_JOB_NODELIST_HET_GROUP_0': 'node[3-4]',
          'LEARNER_EXIT_CODE': str(code)})
  try:
    assert process.wait(programs.DEADLINE_SECS) == code
  finally:
    with contextlib.suppress(ProcessLookupError):
      os.killpg(process.pid, signal.SIGKILL)
  assert (tmp_path / 'set_up').exists()
  roles = {'learner': [], 'actor': []}
  for path in log.iterdir():
    args = _check_role(path.read_text().split('\0')[:-1])
    assert args.address == 'node3:24567'
    roles[args.role].append(args)
  learner, = roles['learner']
  assert (learner.config, learner.run_dir) == (config, 'runs/my run')
  assert gin_config.load(config, learner.gin_binding).actor.num_actors == 64
  assert sorted(args.task for args in roles['actor']) == list(range(64))


def test_slurm_script_says_how_it_is_used():
  ran = subprocess.run([_LAUNCH / 'slurm' / 'train.sbatch', 'one'], text=True,
                       capture_output=True)
  assert ran.returncode == 2
  assert ran.stderr.startswith('usage: sbatch launch/slurm/train.sbatch')


# Kubernetes.


def _objects():
  return {(o['kind'], o['metadata']['name']): o for path in _MANIFESTS
          for o in yaml.safe_load_all(path.read_text())}


def _pods():
  """Returns templates of pods by role."""
  objects = _objects()
  return {name.rpartition('-')[2]: objects[kind, name]['spec']['template']
          for kind, name in (('Job', 'impala-learner'),
                             ('StatefulSet', 'impala-actor'))}


def _selects(selector, labels):
  """Returns whether labels are selected, by the Kubernetes rules in use."""
  wanted = selector.get('matchLabels', {})
  return (all(labels.get(k) == v for k, v in wanted.items())
          and all(e['operator'] == 'In' and labels.get(e['key']) in e['values']
                  for e in selector.get('matchExpressions', ())))


@pytest.mark.parametrize('path', _MANIFESTS, ids=lambda path: path.name)
def test_manifest_has_the_fields_of_its_kinds(path):
  validate = pytest.importorskip(
      'kubernetes_validate',
      reason="needs the extra 'schemas': pip install -e '.[schemas]'")
  for manifest in yaml.safe_load_all(path.read_text()):
    for version in ('1.29', validate.latest_version()):
      validate.validate(manifest, version, strict=True)


def test_kubernetes_commands_are_roles_that_fit_together():
  objects, pods = _objects(), _pods()
  service = objects['Service', 'impala-learner']
  port, = [p['port'] for p in service['spec']['ports']]
  for role, pod in pods.items():
    container, = pod['spec']['containers']
    script, *arguments = container['command']
    assert (programs.ROOT / script).samefile(_LAUNCH / 'role.sh')
    for env in container.get('env', ()):
      arguments = [a.replace(f'$({env["name"]})', '5') for a in arguments]
    args = _check_role(arguments)
    assert (args.role, args.task) == (role, 5 if role == 'actor' else 0)
    assert args.address == f'{service["metadata"]["name"]}:{port}'
    if role == 'learner':
      config = gin_config.load(args.config, args.gin_binding)
      assert config.actor.num_actors == (
          objects['StatefulSet', 'impala-actor']['spec']['replicas'])
      mount, = container['volumeMounts']
      assert pathlib.PurePath(args.run_dir).is_relative_to(mount['mountPath'])
      assert container['ports'][0]['containerPort'] == port
  assert _selects({'matchLabels': service['spec']['selector']},
                  pods['learner']['metadata']['labels'])
  claim, = pods['learner']['spec']['volumes']
  assert ('PersistentVolumeClaim',
          claim['persistentVolumeClaim']['claimName']) in objects


def test_kubernetes_policies_let_peers_to_the_port_and_nobody_else():
  objects, pods = _objects(), _pods()
  policies = [o['spec'] for (kind, _), o in objects.items()
              if kind == 'NetworkPolicy']
  learner = pods['learner']['metadata']['labels']
  port = objects['Service', 'impala-learner']['spec']['ports'][0]['port']
  rules = [rule for policy in policies for rule in policy.get('ingress', ())
           if _selects(policy['podSelector'], learner)]
  (rule,) = rules
  assert rule['ports'] == [{'protocol': 'TCP', 'port': port}]
  (source,) = rule['from']  # One that names pods of this name space only.
  assert source.keys() == {'podSelector'}
  for role in ('actor', 'evaluator'):
    labels = {'app': 'impala', 'role': role}
    assert _selects(source['podSelector'], labels)
    selecting = [policy for policy in policies
                 if _selects(policy['podSelector'], labels)]
    assert selecting
    assert not any('ingress' in policy for policy in selecting)
  assert pods['actor']['metadata']['labels'] == _PEERS
  for stranger in ({}, {'app': 'impala'}, {'role': 'actor'}):
    assert not _selects(source['podSelector'], stranger)
  assert all(policy['policyTypes'] == ['Ingress'] for policy in policies)
