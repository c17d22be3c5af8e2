-- name: members
SELECT name, incarnation, holder, state, host, folder, port, url, version, protocol, fits, agents, joined_at,
  heartbeat_at, clock_offset_s, clock_said, main, cannot_land
FROM fleet_members ORDER BY joined_at, name

-- name: put_member
INSERT INTO fleet_members (name, incarnation, holder, state, host, folder, port, url, version, protocol, fits, agents,
  joined_at, heartbeat_at, clock_offset_s)
VALUES (:name, :incarnation, :holder, 'live', :host, :folder, :port, :url, :version, :protocol, :fits, :agents,
  :now, :now, 0)
ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, holder = excluded.holder, state = 'live',
  host = excluded.host, folder = excluded.folder, port = excluded.port, url = excluded.url,
  version = excluded.version, protocol = excluded.protocol, fits = excluded.fits, agents = excluded.agents,
  joined_at = excluded.joined_at, heartbeat_at = excluded.heartbeat_at, cannot_land = NULL

-- name: set_state
UPDATE fleet_members SET state = :state, heartbeat_at = CASE WHEN CAST(:now AS double precision) IS NULL
  THEN heartbeat_at ELSE :now END
WHERE name = :name AND incarnation = :incarnation

-- name: set_clock_said
UPDATE fleet_members SET clock_said = :said WHERE name = :name AND incarnation = :incarnation

-- name: set_told
UPDATE fleet_members SET agents = :agents, url = :url, port = :port WHERE name = :name AND incarnation = :incarnation

-- name: set_landing
UPDATE fleet_members SET main = :main, cannot_land = :cannot_land WHERE name = :name AND incarnation = :incarnation

-- name: forget_member
DELETE FROM fleet_members WHERE name = :name AND state <> 'live'

-- name: beat
SELECT beats, leader, epoch, leads, now FROM relay_fleet_beat(:name, :incarnation, :offset_s, :lease_s)

-- name: resign
UPDATE fleet_leader SET until = 0 WHERE member = :name AND incarnation = :incarnation

-- name: give_up
UPDATE fleet_leader SET until = 0
WHERE member = :name AND incarnation = :incarnation AND until > 0 AND EXISTS (
  SELECT FROM fleet_members o
  WHERE o.name <> :name AND o.state = 'live' AND o.cannot_land = '' AND o.heartbeat_at >= relay_now() - :lease_s)

-- name: people
SELECT name, value FROM settings WHERE name LIKE 'fleet_people:%'

-- name: forget_people
DELETE FROM settings WHERE name = :name

-- name: leader
SELECT member, epoch, until FROM fleet_leader

-- name: put_work
INSERT INTO fleet_works (member, agent, version, work)
VALUES (:member, :agent, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, :work)
ON CONFLICT (member, agent) DO UPDATE SET version = excluded.version, work = excluded.work

-- name: drop_work
DELETE FROM fleet_works WHERE member = :member AND agent = :agent

-- name: forget_works
DELETE FROM fleet_works WHERE member = :name

-- name: told_agents
SELECT agent FROM fleet_works WHERE member = :member

-- name: work_versions
SELECT member, agent, version FROM fleet_works WHERE member <> :member

-- name: work
SELECT work FROM fleet_works WHERE member = :member AND agent = :agent

-- name: works_of
SELECT member, version, work FROM fleet_works WHERE agent = :agent

-- name: put_picture
INSERT INTO fleet_picture (version, picture) VALUES (1, :picture)
ON CONFLICT (one) DO UPDATE SET version = fleet_picture.version + 1, picture = excluded.picture

-- name: picture
SELECT version, picture FROM fleet_picture WHERE version > :known

-- name: files_wanted
SELECT name FROM settings WHERE starts_with(name, 'fleet_file_wanted:') AND value = '' ORDER BY name

-- name: put_file_part
INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value
RETURNING name

-- name: give_file
UPDATE settings SET value = :parts WHERE name = :name

-- name: forget_files
DELETE FROM settings WHERE name >= :prefix AND name < :prefix || '~'
